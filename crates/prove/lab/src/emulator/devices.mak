# The devices of the lab's virtual machine: a PC with a serial line, memory that it shares with the lab, a file system in
# its memory, and a port by which the guest pauses it.
CONFIG_I440FX=y
CONFIG_IVSHMEM_DEVICE=y
CONFIG_GENERIC_LOADER=y
CONFIG_PVPANIC_ISA=y
CONFIG_PCI_DEVICES=n
CONFIG_TEST_DEVICES=n
