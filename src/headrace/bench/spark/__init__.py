"""`headrace bench spark`: pipelines on Spark, as ratios to the same written with Spark alone."""
