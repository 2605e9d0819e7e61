"""Times executions with the Python project ipybox, without its sandbox, which Linux lacks.

Called by execution.ts with the codes as JSON, the number of cells and that of resets; prints the
figures as JSON. It needs `pip install ipybox "mcp<2"`.
"""

import asyncio
import json
import sys
import tempfile
import time

from ipybox import CodeExecutor


async def main() -> None:
    codes, cells, resets = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

    async def run(code: str) -> float:
        begin = time.perf_counter()
        # Not `execute()`: that leaves its stream for later, whose end then takes `cancel()` away
        # from the next one, so that code that is cancelled runs to its end.
        async for _ in executor.stream(code):
            pass
        return (time.perf_counter() - begin) * 1000

    async def cancel() -> float:
        begin = 0.0
        code = "import time; print(1, flush=True); time.sleep(60)"
        async for _ in executor.stream(code, chunks=True):
            begin = time.perf_counter()
            executor.cancel()
        return (time.perf_counter() - begin) * 1000

    with tempfile.TemporaryDirectory() as directory:
        begin = time.perf_counter()
        async with CodeExecutor(images_dir=directory) as executor:
            await run(codes["empty"])
            figures = {"start": (time.perf_counter() - begin) * 1000}
            for _ in range(cells):
                await run(codes["empty"])  # until all caches are warm
            figures["empty"] = [await run(codes["empty"]) for _ in range(cells)]
            figures["print"] = [await run(codes["print"]) for _ in range(cells)]
            figures["large"] = await run(codes["large"])
            figures |= {"cancel": [], "reset": [], "afterReset": []}
            for _ in range(resets):
                figures["cancel"].append(await cancel())
                begin = time.perf_counter()
                await executor.reset()
                figures["reset"].append((time.perf_counter() - begin) * 1000)
                figures["afterReset"].append(await run(codes["empty"]))
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main())
