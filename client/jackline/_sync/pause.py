"""How this face of the client waits."""

import time

pause = time.sleep
