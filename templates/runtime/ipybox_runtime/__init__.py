"""Helps code in the kernel call MCP tools on the host."""
