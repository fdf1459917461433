package launcher

// specOf returns a Spec for a sandbox like one that exists.
func (l *Local) specOf(id string) (Spec, error) {
	p, err := l.place(id)
	if err == nil {
		err = p.load()
	}
	if err != nil {
		return Spec{}, err
	}
	spec := Spec{Labels: p.Labels, Egress: p.Egress}
	if len(p.Env) > 0 {
		spec.Env = toStrings(p.Env)
	}
	if len(p.Protected) > 0 {
		spec.Protected = toStrings(p.Protected)
	}
	return spec, nil
}
