package record

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Sampling is the decision whether a request is traced. It is made once: before the fast lane, which serves no traced request, or
// else by [Recorder.Begin].
type Sampling int8

// The decisions.
const (
	Undecided Sampling = iota
	NotSampled
	Sampled
)

// Sample decides whether a request is traced, by the flag of a trusted proxy's traceparent or else by chance. Without traces it
// returns Undecided.
func (r *Recorder) Sample(fromProxy bool, parent string) Sampling {
	if r.tracer == nil {
		return Undecided
	}
	sampled := rand.Float64() < r.o.TraceRatio
	if fromProxy && parent != "" {
		if strings.HasSuffix(parent, "-00") { // the usual flag, without parsing the rest
			return NotSampled
		}
		sent := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent})
		if of := trace.SpanContextFromContext(sent); of.IsValid() {
			sampled = of.IsSampled()
		}
	}
	if sampled {
		return Sampled
	}
	return NotSampled
}

// samplingKey is the key of the decision in the context that the sampler gets.
type samplingKey struct{}

// Sampler returns the sampler of a process's spans. Spans of requests are sampled as a Recorder has decided, others by ratio,
// and all spans like their parents.
func Sampler(ratio float64) sdktrace.Sampler {
	return sdktrace.ParentBased(sampler{sdktrace.TraceIDRatioBased(ratio)})
}

type sampler struct{ sdktrace.Sampler }

func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	decided, _ := p.ParentContext.Value(samplingKey{}).(Sampling)
	switch decided {
	case Sampled:
		return sdktrace.AlwaysSample().ShouldSample(p)
	case NotSampled:
		return sdktrace.NeverSample().ShouldSample(p)
	case Undecided:
	}
	return s.Sampler.ShouldSample(p)
}

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
