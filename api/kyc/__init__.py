"""KYC checks: cases, custody of what applicants say, evaluation, review, capture sessions."""
