"""`lab.gpu.counters.profiled` on the fake device."""

import sys

from fake_device import FakeDevice

from lab.gpu.counters.profiled import main

if __name__ == "__main__":
    main(sys.argv[1:], FakeDevice)
