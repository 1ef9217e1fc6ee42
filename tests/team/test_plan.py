"""A plan's tasks stand in an order that can be done, and it stays as it was when something does not fit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.team import Plan, Task, TaskResult


def task(task_id: str, *after: str, done: bool = False, instruction: str = "") -> Task:
    result = {"code": "c", "result": "r", "is_success": True, "is_finished": True} if done else {}
    return Task(task_id=task_id, dependent_task_ids=[*after], instruction=instruction or f"do {task_id}", **result)


def ids(plan: Plan) -> list[str]:
    return [one.task_id for one in plan.tasks]


@given(st.lists(st.sets(st.integers(0, 30), max_size=4), max_size=12), st.randoms(use_true_random=False))
def test_tasks_come_after_those_they_depend_on(depends: list[set[int]], random) -> None:
    tasks = [task(f"{n}", *sorted(f"{one % n}" for one in after if n)) for n, after in enumerate(depends)]
    random.shuffle(tasks)
    plan = Plan(goal="g")
    plan.add_tasks(tasks)
    assert sorted(ids(plan)) == sorted(one.task_id for one in tasks)
    for at, one in enumerate(plan.tasks):
        assert {*one.dependent_task_ids} <= {*ids(plan)[:at]}
    assert plan.current_task is (plan.tasks[0] if tasks else None)


def test_tasks_that_are_in_order_stay_in_it() -> None:
    plan = Plan(goal="g")
    plan.add_tasks([task("b"), task("a"), task("c", "a")])
    assert ids(plan) == ["b", "a", "c"]


def test_a_chain_of_any_length_is_ordered() -> None:
    plan = Plan(goal="g")
    plan.add_tasks([task(f"{n}", *([f"{n + 1}"] if n < 4999 else [])) for n in range(5000)])
    assert ids(plan) == [f"{n}" for n in reversed(range(5000))]


def test_the_beginning_that_two_plans_share_keeps_its_results() -> None:
    plan = Plan(goal="g")
    plan.add_tasks([task("1"), task("2", "1"), task("3", "2")])
    plan.current_task.update_task_result(TaskResult(code="x", result="one", is_success=True))
    plan.finish_current_task()
    plan.add_tasks([task("1"), task("2", "1", instruction="another way"), task("4", "2")])
    assert ids(plan) == ["1", "2", "4"]
    assert (plan.tasks[0].result, plan.tasks[1].instruction) == ("one", "another way")
    assert (plan.current_task_id, [*plan.task_map]) == ("2", ["1", "2", "4"])
    plan.add_tasks([])
    assert ids(plan) == ["1", "2", "4"]


def test_finishing_goes_through_all() -> None:
    plan = Plan(goal="g")
    plan.add_tasks([task("1"), task("2", "1")])
    plan.finish_current_task()
    assert [one.task_id for one in plan.get_finished_tasks()] == ["1"]
    assert plan.current_task_id == "2"
    plan.finish_current_task()
    plan.finish_current_task()
    assert (plan.current_task_id, plan.current_task) == ("", None)


def test_a_replaced_task_makes_those_that_depend_on_it_be_done_again() -> None:
    plan = Plan(goal="g")
    plan.add_tasks([task("1", done=True), task("2", "1", done=True), task("3", "2", done=True), task("4", done=True)])
    plan.replace_task(task("1", instruction="better", done=True))
    assert [one.is_finished for one in plan.tasks] == [True, False, False, True]
    assert plan.tasks[0] is plan.task_map["1"]
    assert plan.tasks[0].instruction == "better"
    assert plan.current_task_id == "2"


def test_a_reset_task_is_done_again_with_those_after_it() -> None:
    plan = Plan(goal="g")
    plan.add_tasks([task("1", done=True), task("2", "1", done=True), task("3", done=True)])
    plan.reset_task("1")
    assert [one.result for one in plan.tasks] == ["", "", "r"]
    assert plan.current_task_id == "1"
    plan.reset_task("nothing")
    assert plan.has_task_id("3")
    assert not plan.has_task_id("nothing")


def test_an_appended_task_is_the_last() -> None:
    plan = Plan(goal="g")
    plan.append_task(task("1", done=True))
    plan.append_task(task("2", "1"))
    assert (ids(plan), plan.current_task_id) == (["1", "2"], "2")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda plan: plan.add_tasks([task("2", "9")]), "'2' depends on '9'"),
        (lambda plan: plan.add_tasks([task("2", "3"), task("3", "2")]), "depends on itself"),
        (lambda plan: plan.add_tasks([task("2", "2")]), "depends on itself"),
        (lambda plan: plan.add_tasks([task("2"), task("2")]), "one id"),
        (lambda plan: plan.replace_task(task("9")), "no task '9'"),
        (lambda plan: plan.replace_task(task("0", "1")), "depends on itself"),
        (lambda plan: plan.append_task(task("1")), "'1' already"),
        (lambda plan: plan.append_task(task("2", "9")), "'2' depends on '9'"),
    ],
)
def test_what_does_not_fit_leaves_the_plan_as_it_was(change, words: str) -> None:
    plan = Plan(goal="g")
    plan.add_tasks([task("0", done=True), task("1", "0")])
    before = plan.model_dump()
    with pytest.raises(ValueError, match=words):
        change(plan)
    assert plan.model_dump() == before


def test_a_plan_comes_back_with_one_object_for_each_task() -> None:
    plan = Plan(goal="g", context="c")
    plan.add_tasks([task("1", done=True), task("2", "1")])
    form = plan.model_dump()
    assert [*form] == ["goal", "context", "tasks", "task_map", "current_task_id"]
    again = Plan(
        **json.loads(json.dumps({**form, "tasks": [{**form["tasks"][0], "assignee": "Ana"}, form["tasks"][1]]}))
    )
    assert again.current_task is again.tasks[1]
    assert again.task_map["1"] is again.tasks[0]
    assert again.model_dump()["tasks"][0]["assignee"] == "Ana"
