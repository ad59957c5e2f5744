package kubevirt

// Releases returns the first version of each row of the table.
func Releases() []Version {
	var all []Version
	for _, r := range releases {
		all = append(all, r.from)
	}
	return all
}
