def run(name: str) -> str:
    return f"Hello, {name}!"
