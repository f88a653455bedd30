{{- /* SPDX-License-Identifier: Apache-2.0
reshardfs.toml: a value of JSON is one of TOML. */ -}}
{{- define "reshardfs.configuration" -}}
[mount.{{ .Values.name }}]
{{- range $key, $value := .Values.mount }}
{{ $key }} = {{ toJson $value }}
{{- end }}
mountpoint = "/run/reshardfs/mnt"
fuse-socket = "/run/reshardfs/s/fuse.sock"
fuse-socket-wait = 300
{{- end }}
