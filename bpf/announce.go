package bpf

// announce does what registers a cgroup, and has the programs look at the cgroup of
// whoever executes a file, until a scan that began later has found all processes.
func (t *Tracker) announce(cgroup uint64, register func() error) error {
	t.settings.Lock()
	defer t.settings.Unlock()
	t.announced++
	if err := t.change(func(s *trackerSettings) { s.Unscanned |= freshBit(cgroup) }); err != nil {
		return err
	}
	return register()
}

// freshBit is fresh_bit of the programs.
func freshBit(id uint64) uint64 {
	return 1 << (id * 0x9e3779b97f4a7c15 >> 58)
}

// registrations returns how many were announced.
func (t *Tracker) registrations() uint64 {
	t.settings.Lock()
	defer t.settings.Unlock()
	return t.announced
}

// scanned ends what announce began, after a scan that began when there were so many
// registrations and lost processes, and found them all.
func (t *Tracker) scanned(registrations, lost uint64) error {
	t.settings.Lock()
	defer t.settings.Unlock()
	return t.change(func(s *trackerSettings) {
		s.Complete = lost + 1
		if t.announced == registrations { // else the next scan does
			s.Unscanned = 0
		}
	})
}

// change changes the settings. Whoever calls it holds the lock.
func (t *Tracker) change(edit func(*trackerSettings)) error {
	settings, err := t.maps.getSettings()
	if err != nil {
		return err
	}
	changed := settings
	if edit(&changed); changed == settings {
		return nil
	}
	return t.maps.putSettings(changed)
}
