"""What algorithms stand on: compiling, launching and threads, one module per kind of device."""
