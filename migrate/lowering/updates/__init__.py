"""Update regions: what goes forward, backward and steps becomes one pure, jitted step function."""
