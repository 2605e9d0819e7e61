"""Times executions over ZMQ, as the least that a client of this kernel can need.

Called by execution.ts with the codes as JSON and the number of cells; prints the figures as JSON.
"""

import json
import sys
import time

from jupyter_client.manager import start_new_kernel


def main() -> None:
    codes, cells = json.loads(sys.argv[1]), int(sys.argv[2])
    begin = time.perf_counter()
    manager, client = start_new_kernel(kernel_name="python3")
    try:

        def run(code: str) -> float:
            begin = time.perf_counter()
            # Waits for the reply and for idle, and takes all output.
            client.execute_interactive(code, output_hook=lambda message: None, store_history=False)
            return (time.perf_counter() - begin) * 1000

        run(codes["empty"])
        start = (time.perf_counter() - begin) * 1000
        for _ in range(cells):
            run(codes["empty"])  # until all caches are warm
        print(
            json.dumps(
                {
                    "start": start,
                    "empty": [run(codes["empty"]) for _ in range(cells)],
                    "print": [run(codes["print"]) for _ in range(cells)],
                    "large": run(codes["large"]),
                }
            )
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
