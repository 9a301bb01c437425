from tocsin.cli import main

main()
