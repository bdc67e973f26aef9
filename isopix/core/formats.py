"""Numbers as text: losses, rates, durations and percentages."""

from collections.abc import Sequence
from statistics import mean, stdev

HUGE = 1e5  # nats


def format_loss(nats: float) -> str:
    """Format 2.0794, and the huge loss of a diverging training as 2.345e+30."""
    return f"{nats:.4f}" if abs(nats) < HUGE else f"{nats:.4g}"


def format_duration(seconds: int | float) -> str:
    """Format 65 seconds as 1:05, 4000 as 1:06:40, and a million as 11.6 days."""
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:,.1f} days"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def spell_duration(seconds: int | float) -> str:
    """Format 65 seconds as 1 min 5 s, 4000 as 1 h 7 min, and a million as 11.6 days."""
    if seconds < 3600:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if minutes else f"{seconds:.3g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return format_duration(seconds) if seconds >= 2 * 86400 else f"{hours} h {minutes} min"


def format_rate(rate: float) -> str:
    """Format a number of items a second: integers from 100."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def percent_with_interval(fraction: float, low: float, high: float) -> str:
    """Format a fraction with its interval: `41.2% (39.8 to 42.5)`."""
    return f"{fraction:.1%} ({100 * low:.1f} to {100 * high:.1f})"


def mean_and_std(fractions: Sequence[float]) -> str:
    """Format the mean of fractions with their standard deviation, n − 1: `62.2% ± 1.3%`; of one, `62.2%`."""
    spread = f" ± {stdev(fractions):.1%}" if len(fractions) > 1 else ""
    return f"{mean(fractions):.1%}{spread}"


def mean_over_subsets(count: int) -> str:
    """Say what such a number is: `mean ± std over 3 random subsets`, or `1 random subset`."""
    return f"mean ± std over {count} random subsets" if count > 1 else "1 random subset"
