"""What a user of the published Python SDK does, against a running Kiln.

Each function is one thing users rely on. It says what it saw in one line, or
raises. KUBECONFIG names the cluster, ROUTER the URL of the router.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

from kubernetes import client
from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox.exceptions import (
    SandboxClaimFailedError,
    SandboxNotFoundError,
    SandboxWarmPoolNotFoundError,
)
from k8s_agent_sandbox.gke_extensions.snapshots.podsnapshot_client import PodSnapshotSandboxClient
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig

ROUTER = SandboxDirectConnectionConfig(api_url=os.environ["ROUTER"])
CLAIM = dict(group="extensions.agents.x-k8s.io", version="v1beta1", plural="sandboxclaims")


def expect(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def eventually(what, check, seconds=90):
    """Waits until check() is true."""
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.2)


def refused(kind, action):
    """Runs an action that has to fail with an error of a kind, and returns it."""
    try:
        action()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected")


def hostname(sandbox):
    return sandbox.commands.run("hostname").stdout.strip()


def claim(sdk, name):
    return sdk.k8s_helper.get_sandbox_claim(name, "default")


def pod(sdk, name):
    return sdk.k8s_helper.core_v1_api.read_namespaced_pod(name, "default")


def pod_gone(sdk, name):
    try:
        pod(sdk, name)
    except client.ApiException as error:
        return error.status == 404
    return False


def opens(sdk):
    sandbox = sdk.create_sandbox("python", labels={"team": "blue"})
    expect("status", sandbox.status(), ("SandboxReady", "Pod is Ready"))
    if sandbox.sandbox_id == sandbox.claim_name:
        raise AssertionError("a warm sandbox was expected, not one of the claim's own name")
    expect("hostname", hostname(sandbox), sandbox.sandbox_id)
    expect("pod name", sandbox.get_pod_name(), sandbox.sandbox_id)
    expect("pod IP", sandbox.get_pod_ip(), pod(sdk, sandbox.sandbox_id).status.pod_ip)
    expect("name hash", sandbox.get_sandbox_name_hash(),
           pod(sdk, sandbox.sandbox_id).metadata.labels["agents.x-k8s.io/sandbox-name-hash"])
    return f"{sandbox.claim_name} has {sandbox.sandbox_id}"


def lists(sdk):
    names = [name for _, name in sdk.list_active_sandboxes()]
    expect("listed by label", sdk.list_all_sandboxes(label_selector="team=blue"), names)
    return f"{len(names)} by label"


def opens_again(sdk):
    (_, name), = sdk.list_active_sandboxes()
    other = SandboxClient(connection_config=ROUTER)
    sandbox = other.get_sandbox(name)
    expect("sandbox", sandbox.sandbox_id, sdk.get_sandbox(name).sandbox_id)
    expect("hostname", hostname(sandbox), sandbox.sandbox_id)
    sandbox.close_connection()
    return "another client has the same sandbox"


def takes_over_a_named_claim(sdk):
    first = sdk.create_sandbox("python", claim_name="my-notebook")
    second = SandboxClient(connection_config=ROUTER).create_sandbox(
        "python", claim_name="my-notebook", adopt_existing=True)
    expect("sandbox", second.sandbox_id, first.sandbox_id)
    first.terminate()
    return "asked for twice by name, it is one"


def labels_its_pod(sdk):
    sandbox = sdk.create_sandbox(
        "python", pod_labels={"sandbox.users.io/run": "42"}, pod_annotations={"example.com/note": "mine"})
    eventually("the pod's label", lambda: pod(sdk, sandbox.sandbox_id).metadata.labels.get("sandbox.users.io/run") == "42")
    is_ = pod(sdk, sandbox.sandbox_id).metadata
    expect("annotation", is_.annotations.get("example.com/note"), "mine")
    expect("created by", is_.labels.get("agents.x-k8s.io/created-by"), "python-client")
    sandbox.terminate()
    return "label, annotation and created-by are on the pod"


def sets_environment(sdk):
    sandbox = sdk.create_sandbox("open", env={"GREETING": "hello"})
    expect("sandbox", sandbox.sandbox_id, sandbox.claim_name)
    expect("GREETING", sandbox.commands.run("printenv GREETING").stdout.strip(), "hello")
    expect("KEPT", sandbox.commands.run("printenv KEPT").stdout.strip(), "template")
    sandbox.terminate()
    return "a cold start has the variable"


def is_told_at_once(sdk):
    error = refused(SandboxWarmPoolNotFoundError, lambda: sdk.create_sandbox("none"))
    if 'SandboxWarmPool "none" not found' not in str(error):
        raise AssertionError(f"unclear: {error}")
    error = refused(SandboxClaimFailedError, lambda: sdk.create_sandbox("python", env={"GREETING": "hello"}))
    if "EnvVarsInjectionRejected" not in str(error):
        raise AssertionError(f"unclear: {error}")
    error = refused(SandboxClaimFailedError, lambda: sdk.create_sandbox("python", pod_labels={"example.com/x": "1"}))
    if "InvalidMetadata" not in str(error):
        raise AssertionError(f"unclear: {error}")
    return "no pool, variables and labels that are not allowed"


def suspends_and_resumes(sdk):
    with PodSnapshotSandboxClient(connection_config=ROUTER) as other:
        sandbox = other.create_sandbox("python")
        before = pod(sdk, sandbox.sandbox_id).metadata.uid
        answer = sandbox.suspend(snapshot_before_suspend=False)
        expect("suspend", (answer.success, answer.error_reason), (True, ""))
        expect("suspended", sandbox.is_suspended(), True)
        eventually("no address", lambda: sandbox.get_pod_ip() is None)
        expect("status", sandbox.status(), ("SandboxNotReady", "Sandbox is suspended"))
        answer = sandbox.resume()
        expect("resume", (answer.success, answer.error_reason), (True, ""))
        eventually("ready again", lambda: sandbox.status() == ("SandboxReady", "Pod is Ready"))
        expect("hostname", hostname(sandbox), sandbox.sandbox_id)
        if pod(sdk, sandbox.sandbox_id).metadata.uid == before:
            raise AssertionError("the pod is the one of before")
        expect("claim's sandbox", claim(sdk, sandbox.claim_name)["status"]["sandbox"]["name"], sandbox.sandbox_id)
    return "a new pod, the same sandbox"


def expires(sdk):
    sandbox = sdk.create_sandbox("python", shutdown_after_seconds=5)
    eventually("the claim's end", lambda: claim(sdk, sandbox.claim_name) is None)
    eventually("the pod's end", lambda: pod_gone(sdk, sandbox.sandbox_id))
    refused(SandboxNotFoundError, lambda: sdk.get_sandbox(sandbox.claim_name, resolve_timeout=1))
    return "claim and pod are gone"


def serves_many_at_once(sdk):
    with ThreadPoolExecutor(8) as pool:
        all_ = list(pool.map(lambda _: SandboxClient(connection_config=ROUTER).create_sandbox("python"), range(8)))
    expect("sandboxes", len({s.sandbox_id for s in all_}), 8)
    expect("hostnames", [hostname(s) for s in all_], [s.sandbox_id for s in all_])
    for sandbox in all_:
        sandbox.terminate()
    return "8 claims, 8 sandboxes, from a pool of 4"


def terminates(sdk):
    (_, name), = sdk.list_active_sandboxes()
    sandbox = sdk.get_sandbox(name)
    sandbox.terminate()
    sandbox.terminate()
    expect("claim", claim(sdk, name), None)
    eventually("the pod's end", lambda: pod_gone(sdk, sandbox.sandbox_id))
    return "claim and pod are gone"


def main():
    sdk = SandboxClient(connection_config=ROUTER)
    chapters = [opens, lists, opens_again, takes_over_a_named_claim, labels_its_pod, sets_environment,
                is_told_at_once, suspends_and_resumes, expires, serves_many_at_once, terminates]
    for chapter in chapters:
        sdk.list_active_sandboxes()
        print(f"  {chapter.__name__.replace('_', ' '):28} {chapter(sdk)}")
    print(f"{len(chapters)} passed, 0 failed")


main()
