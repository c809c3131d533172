def clamp(value, low, high):
    """The value, or the bound that it is beyond."""
    if value < low:
        return low
    return value
