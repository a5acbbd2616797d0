from refold.cli import main

main()
