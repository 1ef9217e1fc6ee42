import pytest
from spans import DAY, free, merged, parsed


def test_spans_that_meet_are_one():
    assert merged([(60, 120), (120, 180)]) == [(60, 180)]


def test_spans_that_overlap_are_one():
    assert merged([(90, 180), (60, 120)]) == [(60, 180)]


def test_spans_apart_stay_apart():
    assert merged([(300, 360), (60, 120)]) == [(60, 120), (300, 360)]


def test_a_long_meeting_keeps_its_end_whatever_lies_within_it():
    assert free([(540, 720), (560, 600)], day=(480, 780)) == [(480, 540), (720, 780)]


def test_of_a_day_without_meetings_all_is_free():
    assert free([]) == [DAY]


def test_a_span_is_read():
    assert parsed("9:30-11:00") == (570, 660)


@pytest.mark.parametrize("wrong", ["11:00-9:30", "9:30", "23:00-25:00", "noon-13:00"])
def test_what_is_no_span_is_refused(wrong):
    with pytest.raises(ValueError):
        parsed(wrong)
