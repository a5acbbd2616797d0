from refold.cli import main

main(prog_name="refold")
