"""A node whose calls are written down."""

from interpose._pb import cri_pb2 as cri
from interpose.resmgr.whatif.events import ReplyEvent, RequestEvent
from tests.support.policy.recalled_node import RecalledNode, Story


async def test_calls_and_what_the_policy_sends_are_written_down() -> None:
    """In their order: who shared gives up CPUs before the create that takes them is over."""
    recalled = RecalledNode()
    try:
        await recalled.node.start()
        web = await recalled.create(await recalled.pod("web", "burstable"), 100)
        await recalled.call(cri.StartContainerRequest(container_id=web))
        await recalled.create(await recalled.pod("db"), 2000)
        await recalled.node.in_step()
    finally:
        await recalled.close()
    asked = [one for one in recalled.story.happenings if isinstance(one, RequestEvent)]
    assert [one.method for one in asked if one.origin == "client"] == [
        "RunPodSandbox", "CreateContainer", "StartContainer", "RunPodSandbox", "CreateContainer",
    ]  # fmt: skip
    (update,) = (one for one in asked if one.origin == "policy")
    assert update.method == "UpdateContainerResources"
    numbers = [one.number for one in recalled.story.happenings if isinstance(one, ReplyEvent)]
    assert numbers.index(update.number) < numbers.index(update.number - 1)


def test_a_story_tells_of_calls_that_nobody_makes() -> None:
    """With the CPUs that a container was given then."""
    story = Story()
    assert story.run("db", 2000, cpus="2-3") == "db-app"
    sent = [one.forwarded for one in story.happenings if isinstance(one, ReplyEvent) and one.forwarded]
    (create,) = map(cri.CreateContainerRequest.FromString, sent)
    assert create.config.linux.resources.cpuset_cpus == "2-3"
