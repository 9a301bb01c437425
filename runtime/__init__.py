"""Settings, logs, signals and liveness, which every process uses. Imports no other package of Tocsin."""
