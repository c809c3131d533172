def clamp(value, low, high):
    """The value, or the bound that it is beyond."""
    if value < low:
        return low
    if value > high:
        return high
    return value
