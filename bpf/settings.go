package bpf

// registerUnscanned runs register for a cgroup, after it has set the cgroup's bit in the Unscanned
// settings. While the bit is set, the programs check the cgroup of every process that executes a
// file. [Tracker.markScanned] clears the bits.
func (t *Tracker) registerUnscanned(cgroup uint64, register func() error) error {
	t.settingsMutex.Lock()
	defer t.settingsMutex.Unlock()
	t.registered++
	if err := t.updateSettings(func(s *trackerSettings) { s.Unscanned |= freshBit(cgroup) }); err !=
		nil {
		return err
	}
	return register()
}

// freshBit is fresh_bit of the kernel programs.
func freshBit(id uint64) uint64 {
	return 1 << (id * 0x9e3779b97f4a7c15 >> 58)
}

// registrationCount returns the number of registrations so far.
func (t *Tracker) registrationCount() uint64 {
	t.settingsMutex.Lock()
	defer t.settingsMutex.Unlock()
	return t.registered
}

// markScanned records a scan that found all processes. The arguments are the counts of
// registrations and of lost processes from before the scan.
func (t *Tracker) markScanned(registrations, lost uint64) error {
	t.settingsMutex.Lock()
	defer t.settingsMutex.Unlock()
	return t.updateSettings(func(s *trackerSettings) {
		s.Complete = lost + 1
		if t.registered == registrations { // else a later scan clears the bits
			s.Unscanned = 0
		}
	})
}

// updateSettings writes the settings if edit changes them. The caller holds settingsMutex.
func (t *Tracker) updateSettings(edit func(*trackerSettings)) error {
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
