# SPDX-License-Identifier: Apache-2.0
"""An engine without a GPU whose steps take as long as their work, and later longer. It marks nothing.
usage: serve.py END-FILE"""
import os
import random
import sys
import time

import spanned.engine as engine
import _json  # noqa: F401: an extension module, so that the package is noticed
import _ctypes  # noqa: F401

random.seed(5)
e = engine.Engine()
step = 0
while not os.path.exists(sys.argv[1]):
    batch = engine.Batch(list(range(random.randrange(1, 9))), random.randrange(100, 2000))
    slow = 3 if step >= 200 else 1
    e.step(batch, seconds=slow * (0.004 + batch.tokens * 1e-5))
    time.sleep(0.001)
    step += 1
