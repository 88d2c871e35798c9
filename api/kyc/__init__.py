"""KYC checks: cases, custody of applicant data, evaluation, review, capture sessions."""
