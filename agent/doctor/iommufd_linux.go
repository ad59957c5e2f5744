package doctor

import "github.com/mooring-vm/mooring/lifecycle/host"

func iommufdUsers() (pids []int, err error) { return host.IOMMUFDUsers() }
