package record

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
)

// endSpan sets the attributes of a request's span and ends it. For an error it has the text for the client.
func (rec *Record) endSpan(end *End) {
	if rec.span.IsRecording() {
		rec.span.SetAttributes(
			attribute.String("http.request.method", methodClass(end.Method)),
			attribute.String("http.route", rec.Route),
			attribute.Int("http.response.status_code", end.Status),
			attribute.String("tipcache.outcome", rec.Outcome),
			attribute.String("tipcache.store", rec.Store),
			attribute.Int64("tipcache.height", rec.Height),
			attribute.Int64("tipcache.tip", rec.Tip),
			attribute.String("tipcache.request_id", rec.ID[0]),
		)
	}
	if rec.Err != nil {
		rec.span.SetAttributes(attribute.String("error.message", rec.Public))
		if end.Status >= http.StatusInternalServerError {
			rec.span.SetStatus(codes.Error, rec.Public)
		}
	}
	rec.span.End()
}
