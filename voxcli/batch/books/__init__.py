"""Books to chapters: EPUB, Markdown and plain text. Knows nothing of rows, voices or audio."""
