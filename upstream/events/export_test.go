package events

// Publish offers an event to the subscriptions and returns the number of those that may match.
func (f *Feed) Publish(e *Event) int { return f.hub.publish(e) }
