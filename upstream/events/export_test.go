package events

// Publish gives an event to those who want it.
func (f *Feed) Publish(e *Event) int { return f.hub.publish(e) }
