package supervisor

// ExitReasons counts the reported reasons of ends, while no goroutine of the supervisor runs.
func (s *Supervisor) ExitReasons() (count int) {
	for t := range s.withFormer() {
		for _, h := range t.handles {
			if h.how != "" {
				count++
			}
		}
	}
	return count
}

// HasLeft calls hasLeft.
func (s *Supervisor) HasLeft(p Tracked, cgroups map[uint64]string) bool {
	return s.hasLeft(p, cgroups)
}

// DomainCgroup is domainCgroup.
var DomainCgroup = domainCgroup
