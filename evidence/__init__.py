"""Last-seen marks: renewals, activity and heartbeats. Nothing safe depends on them, and none of them is a fact."""
