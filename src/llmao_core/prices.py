"""Money in words, the same on every page and in every sentence.

Rule of this file: dollars before the figure. An unknown price is never 0, and what is next to
nothing is not rounded to it.
"""

# Below it a cent is much, and a third digit is shown where there is one.
_SMALL = 0.1


def dollars(amount: float) -> str:
    """Return an amount as `$1,234.50`; below ten cents as `$0.045`."""
    shown = f"{amount:,.3f}"
    if amount >= _SMALL or shown.endswith("0"):
        shown = f"{amount:,.2f}"
    return f"${shown}"


def per_hour(price: float) -> str:
    """Return a price in dollars per hour as `$0.45/h`."""
    return f"{dollars(price)}/h"


def cost(price: float | None) -> str:
    """Return what a box costs, after that word; a price that is unknown is told as such."""
    return "what no listing says" if price is None else per_hour(price)


def rent(price: float | None, *, running: bool) -> str:
    """Return what a listed box costs now; a price that its listing does not tell is told as such.

    running: its listing says that it runs. Of one that does not, 0 is what is billed for now.
    """
    if price is None:
        return "price not listed" if running else "price not listed yet"
    return per_hour(price) if running or price else f"{per_hour(price)} now (not running)"
