"""What every process uses: settings, logs, signals, Redis, metrics. Imports nothing else of Tocsin."""
