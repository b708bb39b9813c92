"""The focused multi-task GP of Leen, Peltonen & Kaski (2011)."""
