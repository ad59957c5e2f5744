package kubevirt

// Releases returns the version that each row of the table begins with.
func Releases() []Version {
	var all []Version
	for _, r := range releases {
		all = append(all, r.from)
	}
	return all
}
