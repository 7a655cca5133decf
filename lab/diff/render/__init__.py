"""Renderers of a comparison: terminal, Markdown, SARIF, JUnit, HTML and JSON."""
