# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes objects under the pod security standards: the readers' pods meet "restricted", in a namespace that
enforces it; what is privileged is only the helper and the sidecar that say so. Secrets are files that only the sidecar
sees, and network policies let nothing in or out but what they name. That the rules find what is wrong, pods with one
fault each show."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator

import report

try:
    import kubernetes_objects
    import pod_security
    from kubernetes_objects import Object, Sets, containers_of, pod_of
except ImportError as error:
    print(f"skipped: {error}; install python3-yaml")
    sys.exit(77)

LABEL = "pod-security.kubernetes.io/enforce"
READERS = ("reader/reader.yaml", "overlays/volume", "overlays/s3", "chart volume", "chart s3")
# What "restricted" refuses of the others, and nothing else.
PRIVILEGED = {
    "helper": ["volume node: hostPath", "helper: privileged", "helper: allowPrivilegeEscalation", "helper: runAsNonRoot",
               "helper: seccompProfile", "helper: does not drop all capabilities"],
    "sidecar.yaml": ["reshardfs: privileged", "reshardfs: allowPrivilegeEscalation", "reshardfs: seccompProfile",
                     "reshardfs: does not drop all capabilities", "app: runAsNonRoot", "app: seccompProfile"],
    "device-plugin.yaml": ["the pod: seccompProfile", "app: seccompProfile"],
}
PRIVILEGED["chart helper"] = PRIVILEGED["helper/helper.yaml"] = PRIVILEGED["helper"]

Fault = tuple[str, Callable[[Object], object]]


def faults() -> Iterator[Fault]:
    """What is said of a pod, and how to make it so."""
    own = "securityContext"
    yield "hostNetwork", lambda pod: pod.update(hostNetwork=True)
    yield "hostPID", lambda pod: pod.update(hostPID=True)
    yield "hostPath", lambda pod: pod["volumes"].append({"name": "x", "hostPath": {"path": "/"}})
    yield "volume x: nfs", lambda pod: pod["volumes"].append({"name": "x", "nfs": {}})
    yield "sysctl kernel.msgmax", lambda pod: pod[own].update(sysctls=[{"name": "kernel.msgmax", "value": "1"}])
    yield "runAsUser 0", lambda pod: pod[own].update(runAsUser=0)
    yield "seccompProfile", lambda pod: pod[own].pop("seccompProfile")
    yield "seccompProfile", lambda pod: pod[own]["seccompProfile"].update(type="Unconfined")
    yield "runAsNonRoot", lambda pod: pod[own].pop("runAsNonRoot")
    for place in ("initContainers", "containers"):
        def first(pod: Object, place: str = place) -> Object:
            return pod[place][0][own]

        yield "privileged", lambda pod, of=first: of(pod).update(privileged=True)
        yield "allowPrivilegeEscalation", lambda pod, of=first: of(pod).pop("allowPrivilegeEscalation")
        yield "allowPrivilegeEscalation", lambda pod, of=first: of(pod).update(allowPrivilegeEscalation=True)
        yield "runAsNonRoot", lambda pod, of=first: of(pod).update(runAsNonRoot=False)
        yield "runAsUser 0", lambda pod, of=first: of(pod).update(runAsUser=0)
        yield "does not drop all", lambda pod, of=first: of(pod)["capabilities"].update(drop=["SYS_ADMIN"])
        yield "does not drop all", lambda pod, of=first: of(pod).pop("capabilities")
        yield "adds capability CHOWN", lambda pod, of=first: of(pod)["capabilities"].update(add=["CHOWN"])
        yield "seccompProfile", lambda pod, of=first: of(pod).update(seccompProfile={"type": "Unconfined"})
        yield "procMount", lambda pod, of=first: of(pod).update(procMount="Unmasked")
        yield "appArmorProfile", lambda pod, of=first: of(pod).update(appArmorProfile={"type": "Unconfined"})
        yield "seLinuxOptions", lambda pod, of=first: of(pod).update(seLinuxOptions={"type": "spc_t"})
        yield "hostPort", lambda pod, at=place: pod[at][0].update(ports=[{"containerPort": 1, "hostPort": 1}])


def rule_problems(pod: Object) -> Iterator[str]:
    for says, spoil in faults():
        spoilt = copy.deepcopy(pod)
        spoil(spoilt)
        if not any(says in problem for problem in pod_security.restricted_problems(spoilt)):
            yield f"the rules do not find {says}"


def secret_problems(pod: Object) -> Iterator[str]:
    secret = {volume["name"] for volume in pod["volumes"]
              if "secret" in volume or any("secret" in source for source in volume.get("projected", {}).get("sources", []))}
    for container in containers_of(pod):
        for variable in container.get("env", []):
            if "KEY" in variable["name"] or "TOKEN" in variable["name"]:
                yield f"{container['name']}: a secret in the environment: {variable['name']}"
        for mount in container.get("volumeMounts", []):
            if mount["name"] in secret:
                if container["name"] != "reshardfs":
                    yield f"{container['name']}: sees the secret"
                if not mount.get("readOnly") or "subPath" in mount:
                    yield f"{container['name']}: the secret is not a read-only directory, which Kubernetes renews"
    for volume in pod["volumes"]:
        mode = volume.get("projected", {}).get("defaultMode", 0)
        if volume["name"] in secret and mode & 0o7:
            yield f"volume {volume['name']}: everybody may read the secret: mode {mode:04o}"


def reader_problems(documents: list[Object]) -> Iterator[str]:
    (pod,) = filter(None, map(pod_of, documents))
    yield from pod_security.restricted_problems(pod)
    yield from rule_problems(pod)
    yield from secret_problems(pod)
    if pod.get("automountServiceAccountToken") is not False:
        yield "the pod gets a token for the API"
    (sidecar,) = [container for container in containers_of(pod) if container["name"] == "reshardfs"]
    if not sidecar["securityContext"].get("readOnlyRootFilesystem"):
        yield "the sidecar can write to its root"


def namespace_problems(sets: Sets) -> Iterator[str]:
    for name, level in (("helper", "privileged"), ("overlays/volume", "restricted"), ("overlays/s3", "restricted")):
        for document in sets.documents.get(name, []):
            if document["kind"] == "Namespace" and document["metadata"]["labels"].get(LABEL) != level:
                yield f"{name}: its namespace does not enforce {level}"


def policy_problems(name: str, documents: list[Object]) -> Iterator[str]:
    """Every pod has a policy about both directions, and only those that read a store may reach something."""
    policies = [document for document in documents if document["kind"] == "NetworkPolicy"]
    if len(policies) != 1:
        yield f"{len(policies)} network policies"
        return
    (policy,) = policies
    spec = policy["spec"]
    (labels,) = [document["spec"]["template"]["metadata"]["labels"] for document in documents if pod_of(document)]
    if not spec["podSelector"]["matchLabels"].items() <= labels.items():
        yield "the network policy is not about the pods"
    if set(spec["policyTypes"]) != {"Ingress", "Egress"}:
        yield "the network policy leaves a direction open"
    reached = {(port["protocol"], port["port"]) for rule in spec.get("egress", []) for port in rule["ports"]}
    if reached != ({("UDP", 53), ("TCP", 53), ("TCP", 443)} if name.endswith("s3") else set()):
        yield f"the pods reach {sorted(reached)}"
    asked = {port["port"] for rule in spec.get("ingress", []) for port in rule["ports"]}
    if asked != (set() if "helper" in name else {8000}):
        yield f"the pods answer at {sorted(asked)}"
    for rule in spec.get("ingress", []):
        if rule.get("from") != [{"podSelector": {}}]:
            yield f"anybody may ask: {rule}"


def main() -> None:
    arguments = report.arguments()
    sets = kubernetes_objects.all_sets(arguments.root)
    problems = list(namespace_problems(sets))
    for name, documents in sets.documents.items():
        found: list[str] = []
        if name in READERS:
            found += reader_problems(documents)
        elif pods := list(filter(None, map(pod_of, documents))):
            refused = [problem for pod in pods for problem in pod_security.restricted_problems(pod)]
            if sorted(refused) != sorted(PRIVILEGED.get(name, [])):
                found.append(f"'restricted' refuses {refused}")
        if name in kubernetes_objects.KUSTOMIZATIONS or name in kubernetes_objects.RELEASES:
            found += policy_problems(name, documents)
        problems += [f"{name}: {problem}" for problem in found]
    report.finish(problems, f"{len(sets.documents)} sets of objects, {len(list(faults()))} faults found"
                  + "".join(f"; not checked: {text}" for text in sets.missing))


main()
