"""Spans of a day, in minutes since midnight: pairs of start and end, which does not belong to it."""

DAY = (0, 24 * 60)


def merged(spans):
    """The same minutes in as few spans as will do, in order."""
    found = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def free(spans, day=DAY):
    """What is left of the day."""
    left, at = [], day[0]
    for start, end in merged(spans):
        if start > at:
            left.append((at, start))
        at = end
    return [*left, (at, day[1])] if at < day[1] else left


def parsed(text):
    """`9:30-11:00` as a span. Raises `ValueError` for what is none."""
    start, end = (int(hours) * 60 + int(minutes) for hours, _, minutes in (t.partition(":") for t in text.split("-")))
    if not DAY[0] <= start < end <= DAY[1]:
        raise ValueError(f"{text} is no span of a day")
    return start, end
