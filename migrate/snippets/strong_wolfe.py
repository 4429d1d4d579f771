def strong_wolfe(evaluated, size, loss, gradient, direction, max_evaluations, tolerance_change, c1=1e-4, c2=0.9):
    """torch's line search: a size of the move along `direction` that satisfies the strong Wolfe conditions, with the
    loss and the gradient there, and how often it asked for them: `evaluated(size)`. It runs on the host."""

    def point(size):
        loss, gradient = evaluated(size)
        return size, loss, gradient, gradient @ direction

    def interpolated(one, other, bounds=None):
        (x1, f1, _, g1), (x2, f2, _, g2) = (one, other) if one[0] <= other[0] else (other, one)
        low, high = bounds or (x1, x2)
        d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
        square = d1**2 - g1 * g2
        if not square >= 0:
            return (low + high) / 2.0
        d2 = square**0.5
        return min(max(x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2)), low), high)

    start = (0, loss, gradient, gradient @ direction)
    slope, longest = start[3], abs(direction).max()
    previous, new = start, point(size)
    count, done = 0, False
    while count < max_evaluations:  # a bracket around a size that satisfies them
        if new[1] > loss + c1 * new[0] * slope or (count > 1 and new[1] >= previous[1]):
            bracket = [previous, new]
            break
        if abs(new[3]) <= -c2 * slope:
            bracket, done = [new], True
            break
        if new[3] >= 0:
            bracket = [previous, new]
            break
        bounds = new[0] + 0.01 * (new[0] - previous[0]), new[0] * 10
        previous, new = new, point(interpolated(previous, new, bounds))
        count += 1
    else:
        bracket = [start, new]
    low, high = (0, 1) if bracket[0][1] <= bracket[-1][1] else (1, 0)
    stuck = False
    while not done and count < max_evaluations:
        first, last = sorted((bracket[0][0], bracket[1][0]))
        if (last - first) * longest < tolerance_change:
            break
        size = interpolated(bracket[0], bracket[1])
        margin = 0.1 * (last - first)
        if min(last - size, size - first) < margin:  # too close to an end
            if stuck or size >= last or size <= first:
                size = last - margin if abs(size - last) < abs(size - first) else first + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = point(size)
        count += 1
        if new[1] > loss + c1 * size * slope or new[1] >= bracket[low][1]:
            bracket[high] = new
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
            continue
        if abs(new[3]) <= -c2 * slope:
            done = True
        elif new[3] * (bracket[high][0] - bracket[low][0]) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = new
    size, loss, gradient, _ = bracket[low]
    return size, loss, gradient, count + 1
