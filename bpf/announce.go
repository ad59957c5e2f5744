package bpf

// announce does what registers a cgroup, and has the programs look at the cgroup of
// whoever executes a file, until a scan that began later has found all processes.
func (t *Tracker) announce(register func() error) error {
	t.settings.Lock()
	defer t.settings.Unlock()
	t.announced++
	if err := t.setUnscanned(1); err != nil {
		return err
	}
	return register()
}

// registrations returns how many were announced.
func (t *Tracker) registrations() uint64 {
	t.settings.Lock()
	defer t.settings.Unlock()
	return t.announced
}

// scanned ends what announce began, after a scan that began when there were so many
// registrations.
func (t *Tracker) scanned(registrations uint64) error {
	t.settings.Lock()
	defer t.settings.Unlock()
	if t.announced != registrations {
		return nil // the next scan does
	}
	return t.setUnscanned(0)
}

func (t *Tracker) setUnscanned(unscanned uint32) error {
	settings, err := t.maps.getSettings()
	if err != nil || settings.Unscanned == unscanned {
		return err
	}
	settings.Unscanned = unscanned
	return t.maps.putSettings(settings)
}
