"""Retrieval: a real BM25 index behind the `search` tool."""
