package grpc

// ReflectNow lets the next call of an unknown method read the node's services, as if a minute had passed.
func (d *Handler) ReflectNow() { d.reflection.lastRead.Store(0) }
