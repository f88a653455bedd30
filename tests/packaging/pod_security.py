# SPDX-License-Identifier: Apache-2.0
"""The "baseline" and "restricted" pod security standards of Kubernetes 1.29 and later, for pods on Linux: what of a
pod's specification they refuse. A field that neither is about is not looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

DEFAULT_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}
SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
RESTRICTED_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
                      "secret"}


def containers_of(pod: Object) -> list[Object]:
    return [*pod.get("initContainers", []), *pod.get("ephemeralContainers", []), *pod["containers"]]


def contexts(pod: Object) -> Iterator[tuple[str, Object]]:
    yield "the pod", pod.get("securityContext", {})
    for container in containers_of(pod):
        yield container["name"], container.get("securityContext", {})


def baseline_problems(pod: Object) -> Iterator[str]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(name):
            yield f"{name}"
    for volume in pod.get("volumes", []):
        if "hostPath" in volume:
            yield f"volume {volume['name']}: hostPath"
    for sysctl in pod.get("securityContext", {}).get("sysctls", []):
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    for name, context in contexts(pod):
        if context.get("privileged"):
            yield f"{name}: privileged"
        if context.get("procMount", "Default") != "Default":
            yield f"{name}: procMount"
        if context.get("seccompProfile", {}).get("type") == "Unconfined":
            yield f"{name}: seccompProfile"
        if context.get("appArmorProfile", {}).get("type") == "Unconfined":
            yield f"{name}: appArmorProfile"
        selinux = context.get("seLinuxOptions", {})
        if selinux.get("type", "") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
            yield f"{name}: seLinuxOptions"
        if context.get("windowsOptions", {}).get("hostProcess"):
            yield f"{name}: hostProcess"
        for capability in context.get("capabilities", {}).get("add", []):
            if capability not in DEFAULT_CAPABILITIES:
                yield f"{name}: adds capability {capability}"
    for container in containers_of(pod):
        for port in container.get("ports", []):
            if port.get("hostPort"):
                yield f"{container['name']}: hostPort"


def restricted_problems(pod: Object) -> Iterator[str]:
    yield from baseline_problems(pod)
    for volume in pod.get("volumes", []):
        for kind in volume.keys() - {"name"} - RESTRICTED_VOLUMES - {"hostPath"}:
            yield f"volume {volume['name']}: {kind}"
    of_pod = pod.get("securityContext", {})
    if of_pod.get("runAsUser") == 0:
        yield "the pod: runAsUser 0"
    for container in containers_of(pod):
        name, own = container["name"], container.get("securityContext", {})
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: allowPrivilegeEscalation"
        if own.get("runAsNonRoot", of_pod.get("runAsNonRoot")) is not True:
            yield f"{name}: runAsNonRoot"
        if own.get("runAsUser") == 0:
            yield f"{name}: runAsUser 0"
        profile = own.get("seccompProfile", of_pod.get("seccompProfile", {}))
        if profile.get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{name}: seccompProfile"
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []):
            yield f"{name}: does not drop all capabilities"
        for capability in capabilities.get("add", []):
            if capability != "NET_BIND_SERVICE":
                yield f"{name}: adds capability {capability}"
