# mended
