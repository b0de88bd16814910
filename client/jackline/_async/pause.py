"""How this face of the client waits."""

import asyncio

pause = asyncio.sleep
