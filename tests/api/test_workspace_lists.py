"""Lists of workspaces over HTTP: what may still be there, what ever was, and to whom it is shown."""

from tests.api.service import Service
from tests.api.test_workspaces import PLACE, placed, standing


async def test_a_list_is_filtered_and_paged_and_teardown_lists_every_body_that_is_to_go(service: Service) -> None:
    run_id, first = await standing(service, scope="c1", policy={"on_workspace_lost": "park"})
    others = [await placed(service, run_id, provider="directory") for _ in range(3)]

    page = await service.ok("GET", f"{PLACE}?limit=3")
    rest = await service.ok("GET", f"{PLACE}?limit=3&cursor={page['next_cursor']}")
    scoped = await service.ok("GET", f"{PLACE}?scope=c1")
    directories = await service.ok("GET", f"{PLACE}?provider=directory&phase=placing&run_id={run_id}")
    await service.ok("DELETE", f"{PLACE}/{first}")
    await service.ok("DELETE", f"{PLACE}/{others[0]}")
    teardown = await service.ok("GET", f"{PLACE}?phase=teardown")
    everything = await service.ok("GET", f"{PLACE}?run_id={run_id}")
    destroyed = await service.ok("GET", f"{PLACE}?phase=destroyed&run_id={run_id}")

    assert [first, *others] == [each["workspace_id"] for each in [*page["items"], *rest["items"]]]
    assert (None, [first], others) == (
        rest["next_cursor"],
        [each["workspace_id"] for each in scoped["items"]],
        [each["workspace_id"] for each in directories["items"]],
    )
    assert [first] == [each["workspace_id"] for each in teardown["items"]]
    assert 4 == len(everything["items"])
    assert [others[0]] == [each["workspace_id"] for each in destroyed["items"]]


async def test_what_is_gone_is_listed_for_good_and_page_by_page(service: Service) -> None:
    run_id, kept = await standing(service)
    gone = [await placed(service, run_id, provider="directory") for _ in range(5)]
    for workspace_id in gone:
        await service.ok("DELETE", f"{PLACE}/{workspace_id}")
    before = await service.ok("GET", f"{PLACE}/{gone[0]}")
    await service.ok("POST", f"/v1/runs/{run_id}/close", json={"fence": 1, "outcome": "succeeded"})
    await service.ok("DELETE", f"{PLACE}/{kept}")

    there = await service.ok("GET", PLACE)
    destroyed = await service.ok("GET", f"{PLACE}?phase=destroyed")
    pages: list[list[str]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await service.ok("GET", f"{PLACE}?all=true&limit=2{cursor}")
        pages.append([each["workspace_id"] for each in page["items"]])
        cursor = None if page["next_cursor"] is None else f"&cursor={page['next_cursor']}"

    assert [kept] == [each["workspace_id"] for each in there["items"]]
    assert gone == [each["workspace_id"] for each in destroyed["items"]]
    assert before == destroyed["items"][0]
    assert [kept, *gone] == [each for page in pages for each in page]
    assert max(map(len, pages)) == 2


async def test_everything_is_listed_to_those_who_may_see_it(service: Service) -> None:
    run_id, workspace_id = await standing(service, leader_id="ada")
    await service.ok("POST", f"/v1/runs/{run_id}/close", json={"fence": 1, "outcome": "succeeded"})
    await service.ok("DELETE", f"{PLACE}/{workspace_id}")
    await service.ok("POST", f"{PLACE}/{workspace_id}/observations", json={"observations": [{"kind": "gone"}]})
    keys = {
        "its leader": service.made_key("leader", "k1", leader_ids=["ada"]),
        "another leader": service.made_key("leader", "k2", leader_ids=["bob"]),
        "another worker": service.made_key("worker", "k4", worker_ids=["w2"]),
        "a reader": service.made_key("reader", "k6"),
    }

    seen = {who: (await service.ok("GET", f"{PLACE}?all=true", key=key))["items"] for who, key in keys.items()}

    assert {"its leader": 1, "another leader": 0, "another worker": 0, "a reader": 1} == {
        who: len(items) for who, items in seen.items()
    }
    assert "destroyed" == seen["a reader"][0]["phase"]


async def test_a_runs_timeline_tells_of_its_workspace_under_the_workspaces_own_name(service: Service) -> None:
    run_id, workspace_id = await standing(service)
    await service.ok("POST", f"{PLACE}/{workspace_id}/observations", json={"observations": [{"kind": "gone"}]})

    told = (await service.ok("GET", f"/v1/runs/{run_id}/timeline"))["items"]

    assert [("workspace.placed.v1", 1), ("workspace.attached.v1", 2), ("workspace.lost.v1", 3)] == [
        (one["topic"], int(one["fact"].removeprefix(f"workspace-{workspace_id}@")))
        for one in told
        if one["workspace_id"] == workspace_id
    ]
