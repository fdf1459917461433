package bench

import "slices"

// over returns published results with those of this run in their places, or behind the others of their groups. Each row of
// another machine than the others' names it. Rows that no benchmark measures any more stay until a run of all groups.
func (r *report) over(old *report) *report {
	merged := &report{Machine: old.Machine, Rows: slices.Clone(old.Rows)}
	for _, measured := range r.Rows {
		if r.Machine != old.Machine {
			measured.Machine = r.Machine
		}
		merged.put(measured)
	}
	return merged
}

func (r *report) put(measured *row) {
	place := len(r.Rows)
	for i, other := range r.Rows {
		if other.Group != measured.Group {
			continue
		}
		if other.What == measured.What {
			r.Rows[i] = measured
			return
		}
		place = i + 1
	}
	r.Rows = slices.Insert(r.Rows, place, measured)
}

// groups returns the groups that rows are of, and unmeasured those that none is of.
func (r *report) groups() []string { return r.groupsWhere(func(*row) bool { return true }) }

func (r *report) unmeasured() []string {
	measured := r.groups()
	return slices.DeleteFunc(slices.Clone(allGroups), func(group string) bool { return slices.Contains(measured, group) })
}

// groupsOn returns the groups with rows of this other machine.
func (r *report) groupsOn(machine string) []string {
	return r.groupsWhere(func(row *row) bool { return row.Machine == machine })
}

func (r *report) groupsWhere(chosen func(*row) bool) []string {
	var groups []string
	for _, row := range r.Rows {
		if chosen(row) && !slices.Contains(groups, row.Group) {
			groups = append(groups, row.Group)
		}
	}
	return groups
}

// otherMachines returns the machines of rows with such peers, besides the report's.
func (r *report) otherMachines(chosen choice) []string {
	var machines []string
	for _, row := range r.Rows {
		shown := slices.ContainsFunc(row.Peers, func(p peer) bool { return chosen(row, &p) })
		if shown && row.Machine != "" && !slices.Contains(machines, row.Machine) {
			machines = append(machines, row.Machine)
		}
	}
	return machines
}
