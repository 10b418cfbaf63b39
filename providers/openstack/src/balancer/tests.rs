//! Cases of the reference by number: `os_NNN`.
