"""gRPC in: Envoy and agentgateway ask here, each in their own words, about what they carry. It holds no rule."""
